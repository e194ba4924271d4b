import type { Operator } from "@keelson/controller";
import { middleware } from "@keelson/middleware";
import { mpi } from "@keelson/mpi";
import { robots } from "@keelson/robots";
import { sandboxes } from "@keelson/sandboxes";
import { testplane } from "@keelson/testplane";

/** The families, in the order in which they start and are shown. A further one is a folder and a line here. */
export const operators: readonly Operator[] = [robots, middleware, testplane, mpi, sandboxes];
