import { createHash } from "node:crypto";
import { sleep } from "@keelson/api-machinery/time";
import type { Logger } from "@keelson/controller";
import type { EngineOptions } from "@keelson/middleware-agent";
import { connectToPeer, type PeerAccess } from "../server/peer-connection.ts";
import type { AssignmentRecord } from "./assignment-record.ts";
import { type LocalConnection, type PostgresConnection, PostgresError } from "../server/postgres-client.ts";

/** Start of the names of slots that agents create. */
const prefix = "keelson_";
/** Slots that other servers may have left here, as a condition. */
const isUnused = `starts_with(slot_name, '${prefix}') AND NOT active`;
const maxNameLength = 63;
const [releaseAttempts, releasePollMs] = [20, 100];

/** The replica of a slot. */
export type SlotOwner = PeerAccess & Pick<EngineOptions, "podName" | "clock" | "log">;

/** Name of the slot of a Pod. The server allows lower case letters, digits and underscores. Pure. */
export function slotName(podName: string): string {
  const name = prefix + podName.toLowerCase().replaceAll(/[^a-z0-9_]/g, "_");
  if (name.length <= maxNameLength) return name;
  const hash = createHash("sha256").update(podName).digest("hex").slice(0, 8);
  return `${name.slice(0, maxNameLength - hash.length - 1)}_${hash}`;
}

/**
 * Makes a primary keep the log that a replica has not received, up to `max_slot_wal_keep_size`. Resolves to the slot; undefined if the primary
 * has no room for one, so that only `wal_keep_size` is kept. Rejects with a `PostgresError` if it does not respond.
 */
export async function ensureSlot(primary: PostgresConnection, name: string, log: Logger): Promise<string | undefined> {
  try {
    // Slots whose log was removed are of no use to their replicas, which may be gone.
    const lost = `${isUnused} AND wal_status = 'lost'`;
    await primary.run(`SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE ${lost}`);
    if ((await primary.run("SELECT 1 FROM pg_replication_slots WHERE slot_name = $1", [name])).length > 0) return name;
    await primary.run("SELECT pg_create_physical_replication_slot($1, true)", [name]);
    return name;
  } catch (error) {
    if (!(error instanceof PostgresError) || error.code !== "Refused") throw error;
    log.warn({ err: error, slot: name }, "follows the primary without a replication slot");
    return undefined;
  }
}

/** Drops slots on a server that has become a replica: it would keep log for servers that do not follow it. Rejects with a `PostgresError`. */
export async function dropSlots(connection: Pick<LocalConnection, "one">): Promise<void> {
  await connection.one(`SELECT count(pg_drop_replication_slot(slot_name))::text FROM pg_replication_slots WHERE ${isUnused}`);
}

/** Drops the slot of a replica that does not return. Does nothing if its primary does not respond: the log that a slot keeps is limited. */
export async function dropSlotAt(
  record: AssignmentRecord | undefined,
  { podName, clock, log, ...access }: SlotOwner,
): Promise<void> {
  if (record?.role !== "replica") return;
  const name = slotName(podName);
  try {
    const { connection: opened } = await connectToPeer(record.primaryHost, access);
    await using connection = opened;
    const text = "SELECT active::text FROM pg_replication_slots WHERE slot_name = $1";
    for (let attempt = 0; attempt < releaseAttempts; attempt++) {
      const [slot] = await connection.run(text, [name]);
      if (slot === undefined) return;
      if (slot["active"] === "false") return void (await connection.run("SELECT pg_drop_replication_slot($1)", [name]));
      // The primary notices the end of the connection in a moment.
      await sleep(clock, releasePollMs);
    }
  } catch (error) {
    if (!(error instanceof PostgresError)) throw error;
    log.warn({ err: error, slot: name }, "could not drop the replication slot of this server");
  }
}
