"""From a model and a corpus to a trace: attention, readouts, gradients and leave-one-out."""
