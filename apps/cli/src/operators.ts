import type { Operator } from "@keelson/controller";
import { robots } from "@keelson/robots";

/** The families, in the order in which they start and are shown. A further one is a folder and a line here. */
export const operators: readonly Operator[] = [robots];
