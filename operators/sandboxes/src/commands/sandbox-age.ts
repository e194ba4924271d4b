/** The age of a sandbox, as kubectl shows it. */
export function age(info: { readonly createdAt: bigint }, nowMs: number): string {
  const seconds = Math.max(Math.floor(nowMs / 1000) - Number(info.createdAt), 0);
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`;
}
