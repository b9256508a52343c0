"""What is to be trained: specifications with every setting resolved, and trainings with an identity."""
