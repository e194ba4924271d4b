import type { ControllerDefinition } from "@keelson/controller";
import { MPIJob } from "../api/mpi-job.ts";
import type { ChildOptions } from "../children/children.ts";
import { createJobController } from "./job-controller.ts";
import { mpiJobFault, viewOfMpiJob } from "./mpi-job-view.ts";

/** Creates the controller of MPIJobs, which runs them as it does RhinoJobs. */
export function createMpiJobController(options: ChildOptions): ControllerDefinition {
  return createJobController(
    {
      name: "mpi-mpijob",
      type: MPIJob,
      viewOf: viewOfMpiJob,
      faultOf: mpiJobFault,
      applyStatus: (client, status, options) => client.applyStatus(MPIJob, status, options),
    },
    options,
  );
}
