"""How different can attention be while the output stays nearly the same?"""
