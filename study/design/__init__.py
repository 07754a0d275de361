"""What will be done: parameters, levels, pool and plan. Pure: reads parameter files, touches no machine."""
