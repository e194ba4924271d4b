import type { CommandDefinition } from "@keelson/operator";
import { copyToolsCommand } from "./copy-tools.ts";
import { deleteCommand } from "./delete.ts";
import { listCommand } from "./list.ts";
import { logsCommand } from "./logs.ts";
import { runCommand } from "./run.ts";

/** The commands `keelson mpi ...`. */
export const commands: readonly CommandDefinition[] = [runCommand, listCommand, logsCommand, deleteCommand, copyToolsCommand];
