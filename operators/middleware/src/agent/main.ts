#!/usr/bin/env node
import { createAgentCommand, runAsProgram } from "@keelson/middleware-agent";
import { transferCommand } from "../commands/transfer.ts";
import { redisAgent } from "./redis-agent.ts";

/*
 * A standalone agent, for images without the `keelson` command; with the argument `transfer` the transfer of a backup.
 */

const isTransfer = process.argv[2] === "transfer";
const command = isTransfer ? transferCommand : createAgentCommand([redisAgent]);
process.exitCode = await runAsProgram(command, process.argv.slice(isTransfer ? 3 : 2));
