import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../apps/cli/src/testing/temporary-folder.ts";
import { type Reserve, reserveAddressBlock } from "./address-block.ts";

/** A machine on which each address can be reserved once. */
function machine(): Reserve {
  const taken = new Set<string>();
  return (address) => {
    if (taken.has(address)) return Promise.resolve(undefined);
    taken.add(address);
    return Promise.resolve(() => Promise.resolve(void taken.delete(address)));
  };
}

/** Programs that the machine happens to run do not matter. */
const nobody = (): Promise<readonly string[]> => Promise.resolve([]);

it("keeps the recorded block of a data directory", async () => {
  using folder = temporaryFolder();
  const reserve = machine();
  const first = await reserveAddressBlock(folder.path, reserve, "loopback", nobody);
  expect(first.podNetwork).toMatch(/^127\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])$/);
  expect(Number(first.serviceNetwork.slice(4)) - Number(first.podNetwork.slice(4))).toBe(64);
  await first.record();
  await first.release();
  const again = await reserveAddressBlock(folder.path, reserve, "loopback", nobody);
  expect([again.podNetwork, again.hasMoved]).toEqual([first.podNetwork, false]);
});

it("moves to the next block when another process holds the recorded one, and stays there", async () => {
  using one = temporaryFolder();
  using other = temporaryFolder();
  const reserve = machine();
  writeFileSync(join(one.path, "addresses.json"), '{"block": 63}');
  writeFileSync(join(other.path, "addresses.json"), '{"block": 63}');
  const first = await reserveAddressBlock(one.path, reserve, "loopback", nobody);
  expect(first).toMatchObject({ podNetwork: "127.127", serviceNetwork: "127.191", hasMoved: false });
  const second = await reserveAddressBlock(other.path, reserve, "loopback", nobody);
  expect(second).toMatchObject({ podNetwork: "127.64", serviceNetwork: "127.128", hasMoved: true });
  await first.release();
  await second.record();
  await second.release();
  expect(await reserveAddressBlock(other.path, reserve, "loopback", nobody)).toMatchObject({
    podNetwork: "127.64",
    hasMoved: false,
  });
});

it("ignores an invalid record, and fails when every block is in use", async () => {
  using folder = temporaryFolder();
  writeFileSync(join(folder.path, "addresses.json"), '{"block": 64}');
  expect((await reserveAddressBlock(folder.path, machine(), "loopback", nobody)).hasMoved).toBe(false);
  await expect(reserveAddressBlock(folder.path, () => Promise.resolve(undefined), "loopback", nobody)).rejects.toThrow(
    /all 64 blocks .* in use/,
  );
});

it("uses private addresses for network namespaces, and keeps the kind of network of a data directory", async () => {
  using folder = temporaryFolder();
  writeFileSync(join(folder.path, "addresses.json"), '{"block": 63, "network": "namespaces"}');
  const reserve = machine();
  const block = await reserveAddressBlock(folder.path, reserve, "namespaces");
  expect(block).toMatchObject({ podNetwork: "10.127", serviceNetwork: "10.191", hasMoved: false });
  await block.release();
  await expect(reserveAddressBlock(folder.path, reserve)).rejects.toMatchObject({ code: "OtherNetwork" });
  using older = temporaryFolder();
  writeFileSync(join(older.path, "addresses.json"), '{"block": 63}');
  await expect(reserveAddressBlock(older.path, reserve, "namespaces")).rejects.toThrow("was created with loopback");
  using created = temporaryFolder();
  const first = await reserveAddressBlock(created.path, reserve, "namespaces");
  await first.record();
  await first.release();
  expect((await reserveAddressBlock(created.path, reserve, "namespaces")).podNetwork).toBe(first.podNetwork);
});

it("skips a block on which a foreign program listens, unless the data directory has recorded it", async () => {
  using folder = temporaryFolder();
  const derived = await reserveAddressBlock(folder.path, machine(), "loopback", nobody);
  const block = (offset: number): string => `127.${64 + ((Number(derived.podNetwork.slice(4)) - 64 + offset) % 64)}`;
  const listeners = [`${block(0)}.0.2`, `127.${Number(block(1).slice(4)) + 64}.3.4`, "127.0.0.1", "0.0.0.0", "10.64.0.1"];
  const claim = () => reserveAddressBlock(folder.path, machine(), "loopback", () => Promise.resolve(listeners));
  expect(await claim()).toMatchObject({ podNetwork: block(2), hasMoved: false });
  await derived.record();
  expect(await claim()).toMatchObject({ podNetwork: block(0), hasMoved: false });
});

it("ignores loopback listeners where Pods have network namespaces, and fails when programs listen in every block", async () => {
  using folder = temporaryFolder();
  const everywhere = () => Promise.resolve(Array.from({ length: 64 }, (_, block) => `127.${64 + block}.0.2`));
  await expect(reserveAddressBlock(folder.path, machine(), "loopback", everywhere)).rejects.toThrow(/all 64 blocks .* in use/);
  expect((await reserveAddressBlock(folder.path, machine(), "namespaces", everywhere)).podNetwork).toMatch(/^10\./);
});
