"""How far retraining moves a model: choose delta from evidence, and say how sure it is."""
