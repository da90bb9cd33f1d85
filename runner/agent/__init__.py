"""Tools of an agent over MCP, within its owner's permission, budget and claims."""
