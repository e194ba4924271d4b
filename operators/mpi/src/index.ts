export { MPIJob, type MPIJobSpec } from "./api/mpi-job.ts";
export { MPIQueue, type MPIQueueSpec } from "./api/mpi-queue.ts";
export * from "./api/names.ts";
export { type JobStatus, jobStatuses, RhinoJob, type RhinoJobSpec } from "./api/rhino-job.ts";
export { createRhinoJobController, type RhinoJobControllerOptions } from "./controllers/rhino-job.ts";
export type { PodTools } from "./children/job-templates.ts";
export { podProgram } from "./children/pod-program-path.ts";
export { type LaunchOrder, type MpiImplementation, rendezvousPort } from "./launch/pod-environment.ts";
export { mpi } from "./operator.ts";
