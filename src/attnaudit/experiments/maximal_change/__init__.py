"""How far any attention can move the output: the experiment, what is found and what is proven."""
