import { type FlagDefinition, textFlag } from "@keelson/operator/flags";

/** Flags of the operator's controllers. */
export const controllerFlags = {
  gangScheduling: textFlag({
    name: "gang-scheduling",
    value: "SCHEDULER",
    description:
      "create PodGroups for MPI jobs, and let this scheduler place their Pods: `volcano`, or the name of a scheduler with the coscheduling plugin of scheduler-plugins",
  }),
};

/** The same flags, as a list for the command line. */
export const operatorFlags: readonly FlagDefinition[] = Object.values(controllerFlags);
