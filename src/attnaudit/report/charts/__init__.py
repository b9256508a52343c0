"""Charts: tables to drawings."""
