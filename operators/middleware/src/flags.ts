import { type FlagDefinition, textFlag } from "@keelson/operator/flags";

/** Flags of the operator's controllers. */
export const controllerFlags = {
  config: textFlag({
    name: "middleware-controllers-config",
    value: "FILE",
    description: "settings of the middleware controllers (controllers.yaml), read at startup",
  }),
};

/** The same flags, as a list for the command line. */
export const operatorFlags: readonly FlagDefinition[] = Object.values(controllerFlags);
