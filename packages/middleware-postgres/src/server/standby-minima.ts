/** Settings that a standby needs at least as high as its primary had them, with their names in the control file and their defaults. */
const standbyMinima = [
  { name: "max_connections", label: "max_connections setting", fallback: 100 },
  { name: "max_worker_processes", label: "max_worker_processes setting", fallback: 8 },
  { name: "max_wal_senders", label: "max_wal_senders setting", fallback: 10 },
  { name: "max_prepared_transactions", label: "max_prepared_xacts setting", fallback: 0 },
  { name: "max_locks_per_transaction", label: "max_locks_per_xact setting", fallback: 64 },
] as const;

/** The parameters, raised to the minimum that the data of a standby requires. `control` is the output of `pg_controldata`. */
export function withMinima(parameters: Readonly<Record<string, string>>, control: string): Readonly<Record<string, string>> {
  const raised = standbyMinima.flatMap(({ name, label, fallback }) => {
    const needed = Number(new RegExp(`^${label}:\\s+(\\d+)`, "m").exec(control)?.[1] ?? 0);
    return Number(parameters[name] ?? fallback) < needed ? [[name, String(needed)] as const] : [];
  });
  return raised.length === 0 ? parameters : { ...parameters, ...Object.fromEntries(raised) };
}
