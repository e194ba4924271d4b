import type { FlagDefinition } from "@keelson/operator/flags";
import { fastPathFlags } from "./fastpath/fastpath-flags.ts";

/** Flags of the operator's servers. */
export const serverFlags: readonly FlagDefinition[] = Object.values(fastPathFlags);
