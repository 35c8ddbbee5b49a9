"""One copy of weights on a device for all its worker processes: who loads first owns it and hands it to the others."""
