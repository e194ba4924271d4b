import { silentLogger } from "@keelson/controller";
import { describe, expect, it } from "vitest";
import { type PostgresConnection, PostgresError, type Value } from "../server/postgres-client.ts";
import { ensureSlot, slotName } from "./replication-slot.ts";

describe("the name of a slot", () => {
  it("is that of the Pod in characters that the server allows", () => {
    expect(slotName("cache-postgres-nodes-0")).toBe("keelson_cache_postgres_nodes_0");
  });

  it("is unique for long names of Pods", () => {
    const name = "a".repeat(70);
    expect(slotName(`${name}-0`)).toHaveLength(63);
    expect(slotName(`${name}-0`)).not.toBe(slotName(`${name}-1`));
  });
});

/** A primary with some slots, and room for a number of them. */
function primaryWith(slots: Map<string, string>, room: number): PostgresConnection {
  const run = (text: string, [name = ""]: readonly Value[] = []): Promise<readonly object[]> => {
    if (text.includes("'lost'")) for (const [slot, status] of slots) if (status === "lost") slots.delete(slot);
    if (text.includes("SELECT 1")) return Promise.resolve(slots.has(name ?? "") ? [{}] : []);
    if (text.includes("create_physical")) {
      if (slots.size >= room) return Promise.reject(new PostgresError("Refused", "all replication slots are in use", "53400"));
      slots.set(name ?? "", "reserved");
    }
    return Promise.resolve([]);
  };
  return { run } as unknown as PostgresConnection;
}

describe("the slot of a replica", () => {
  it("is created once, and again after its log was removed", async () => {
    const slots = new Map([["gone", "lost"]]);
    const primary = primaryWith(slots, 2);
    expect(await ensureSlot(primary, "own", silentLogger)).toBe("own");
    expect(await ensureSlot(primary, "own", silentLogger)).toBe("own");
    expect([...slots]).toEqual([["own", "reserved"]]);
    slots.set("own", "lost");
    expect(await ensureSlot(primary, "own", silentLogger)).toBe("own");
    expect([...slots]).toEqual([["own", "reserved"]]);
  });

  it("is left out if the primary has no room for one", async () => {
    expect(await ensureSlot(primaryWith(new Map([["other", "reserved"]]), 1), "own", silentLogger)).toBeUndefined();
  });
});
