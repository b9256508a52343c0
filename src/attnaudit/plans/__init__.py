"""What is trained: specs with every setting resolved, and trainings with an identity."""
