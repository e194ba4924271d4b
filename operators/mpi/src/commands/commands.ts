import type { CommandDefinition } from "@keelson/operator";
import { copyToolsCommand } from "./copy-tools.ts";
import { deleteCommand } from "./delete.ts";
import { explainCommand } from "./explain.ts";
import { listCommand } from "./list.ts";
import { logsCommand } from "./logs.ts";
import { runCommand } from "./run.ts";
import { resumeCommand, suspendCommand } from "./suspend.ts";
import { waitCommand } from "./wait.ts";

/** The commands `keelson mpi ...`. */
export const commands: readonly CommandDefinition[] = [
  runCommand,
  listCommand,
  logsCommand,
  waitCommand,
  explainCommand,
  suspendCommand,
  resumeCommand,
  deleteCommand,
  copyToolsCommand,
];
