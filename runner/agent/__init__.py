"""What an agent may do over MCP, with its owner's leave: tools, budget, claims."""
