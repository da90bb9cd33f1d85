"""What runs a campaign: each run through an engine, what a person sees meanwhile."""
