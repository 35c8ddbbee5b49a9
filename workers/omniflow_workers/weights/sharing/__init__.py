"""One copy of weights on a device for all its worker processes: who loads first hands it to the others."""
