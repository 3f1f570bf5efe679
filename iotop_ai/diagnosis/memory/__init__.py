"""The parts of the rules' state (FoldState) that ``engine.fold`` updates with each Sample."""
