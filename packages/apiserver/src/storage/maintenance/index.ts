export { isStorageError, StorageError, type StorageErrorCode } from "../storage-error.ts";
export { describeFault } from "../integrity/damage-report.ts";
export type { StorageFault } from "../integrity/inspection.ts";
export { backupStorage, type ProgressOptions } from "./backup.ts";
export type { BackupSummary } from "./backup-file.ts";
export { compactStorage, type CompactResult } from "./compact.ts";
export { type LostData, repairStorage, type RepairResult } from "./repair.ts";
export { restoreStorage, type RestoreOptions, type RestoreResult } from "./restore.ts";
export { type StorageReport, verifyStorage } from "./verify.ts";
