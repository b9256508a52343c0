"""How many weights must be removed before the decision flips?"""
