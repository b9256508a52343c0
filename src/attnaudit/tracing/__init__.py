"""Model and corpus to trace: attention, readouts, gradients and leave-one-out of every instance."""
