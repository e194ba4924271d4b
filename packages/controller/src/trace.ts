/* Records of the last reconciles, as `Manager.reconciles` returns them. */
export type {
  ReconcileCause,
  ReconcileFilter,
  ReconcileRead,
  ReconcileRecord,
  ReconcileWrite,
  WriteVerb,
} from "./reconcile/reconcile-trace.ts";
