import { fileURLToPath } from "node:url";
import type { Operator } from "@keelson/operator";
import { createMiddleware } from "@keelson/middleware";
import { mpi } from "@keelson/mpi";
import { robots } from "@keelson/robots";
import { sandboxes } from "@keelson/sandboxes";
import { testplane } from "@keelson/testplane";

const command = fileURLToPath(new URL("../bin/keelson.js", import.meta.url));

/** The families, in the order in which they start and are shown. A further one is a folder and a line here. */
export const operators: readonly Operator[] = [
  robots,
  createMiddleware({ agentCommand: [process.execPath, command, "middleware", "agent"] }),
  testplane,
  mpi,
  sandboxes,
];
