import { type Condition, type DeepReadonly, draft, setCondition } from "@keelson/api-machinery";
import type { Operation } from "../api/parts.ts";

/** Status fields of a Component or a Group that determine readiness. */
interface ReadyStatus {
  phase?: string;
  replicas?: number;
  readyReplicas?: number;
  observedGeneration?: number;
  operation?: DeepReadonly<Operation>;
  conditions?: Condition[];
}

/** Sets the condition Ready: whether all Pods are ready. The reason is the phase, or OperationFailed. Mutates `status`. */
export function setReady(status: ReadyStatus, now: number): void {
  const { replicas = 0, readyReplicas = 0, operation, phase = "Pending", observedGeneration } = status;
  const hasFailed = operation?.phase === "Failed";
  const conditions = setCondition(
    status.conditions,
    {
      type: "Ready",
      status: replicas > 0 && readyReplicas >= replicas,
      reason: hasFailed ? "OperationFailed" : phase,
      message: hasFailed ? (operation.message ?? "") : `${readyReplicas} of ${replicas} Pods are ready`,
      observedGeneration,
    },
    now,
  );
  status.conditions = draft(conditions) as Condition[];
}
