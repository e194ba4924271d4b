import type { CommandDefinition } from "@keelson/operator";
import { podProgram } from "../children/pod-program-path.ts";
import { buildCommand } from "./build.ts";
import { createCopyToolsCommand } from "./copy-tools.ts";
import { deleteCommand } from "./delete.ts";
import { explainCommand } from "./explain.ts";
import { listCommand } from "./list.ts";
import { logsCommand } from "./logs/logs.ts";
import { queueCommand } from "./queue.ts";
import { runCommand } from "./run/run.ts";
import { cancelCommand, resumeCommand, suspendCommand } from "./patch-commands.ts";
import { topCommand } from "./top.ts";
import { waitCommand } from "./wait.ts";

/** The commands `keelson mpi ...`. */
export const commands: readonly CommandDefinition[] = [
  runCommand,
  buildCommand,
  listCommand,
  queueCommand,
  logsCommand,
  topCommand,
  waitCommand,
  explainCommand,
  suspendCommand,
  resumeCommand,
  cancelCommand,
  deleteCommand,
  createCopyToolsCommand(podProgram),
];
