"""Sections of a page."""
