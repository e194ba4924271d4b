import type { ControllerDefinition } from "@keelson/controller";
import { RhinoJob } from "../api/rhino-job.ts";
import type { ChildOptions } from "../children/children.ts";
import { templateFault } from "../children/template-fault.ts";
import { createJobController } from "./job-controller.ts";

/** Dependencies of the controller. */
export type RhinoJobControllerOptions = ChildOptions;

/** Creates the controller of RhinoJobs. */
export function createRhinoJobController(options: RhinoJobControllerOptions): ControllerDefinition {
  return createJobController(
    {
      name: "mpi-rhinojob",
      type: RhinoJob,
      viewOf: (job) => job,
      faultOf: ({ spec }) =>
        templateFault(spec.launcherTemplate, "spec.launcherTemplate") ??
        templateFault(spec.workerTemplate, "spec.workerTemplate"),
      applyStatus: (client, status, options) => client.applyStatus(RhinoJob, status, options),
    },
    options,
  );
}
