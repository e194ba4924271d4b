#!/usr/bin/env node
import { runAgentProgram } from "@keelson/middleware-agent";
import { postgresAgent } from "./postgres-plugin.ts";

/* A standalone agent, for images without the `keelson` command. */
process.exitCode = await runAgentProgram([postgresAgent]);
