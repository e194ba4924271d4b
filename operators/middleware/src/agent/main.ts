#!/usr/bin/env node
import { runAgent } from "./run-agent.ts";

/* A standalone agent, for images without the `keelson` command. */
process.exitCode = await runAgent(process.argv.slice(2));
