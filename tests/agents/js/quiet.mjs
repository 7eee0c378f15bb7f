// Switches off the telemetry of frameworks. Import this before the framework.

process.env.MCP_USE_ANONYMIZED_TELEMETRY = 'false';
process.env.MCPJAM_TELEMETRY_DISABLED = '1';
process.env.DO_NOT_TRACK = '1';
