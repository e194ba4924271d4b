import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../testing/temporary-folder.ts";
import { type Reserve, takeAddressBlock } from "./address-block.ts";

/** A machine on which addresses can be taken once. */
function machine(): Reserve {
  const taken = new Set<string>();
  return (address) => {
    if (taken.has(address)) return Promise.resolve(undefined);
    taken.add(address);
    return Promise.resolve(() => Promise.resolve(void taken.delete(address)));
  };
}

it("a folder has the same block each time, whatever it is called later", async () => {
  using folder = temporaryFolder();
  const reserve = machine();
  const first = await takeAddressBlock(folder.path, reserve);
  expect(first.podNetwork).toMatch(/^127\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])$/);
  expect(Number(first.serviceNetwork.slice(4)) - Number(first.podNetwork.slice(4))).toBe(64);
  await first.record();
  await first.release();
  const again = await takeAddressBlock(folder.path, reserve);
  expect([again.podNetwork, again.hasMoved]).toEqual([first.podNetwork, false]);
});

it("a block that somebody else has is passed over, for good", async () => {
  using one = temporaryFolder();
  using other = temporaryFolder();
  const reserve = machine();
  writeFileSync(join(one.path, "addresses.json"), '{"block": 63}');
  writeFileSync(join(other.path, "addresses.json"), '{"block": 63}');
  const first = await takeAddressBlock(one.path, reserve);
  expect(first).toMatchObject({ podNetwork: "127.127", serviceNetwork: "127.191", hasMoved: false });
  const second = await takeAddressBlock(other.path, reserve);
  expect(second).toMatchObject({ podNetwork: "127.64", serviceNetwork: "127.128", hasMoved: true });
  await first.release();
  await second.record();
  await second.release();
  expect(await takeAddressBlock(other.path, reserve)).toMatchObject({ podNetwork: "127.64", hasMoved: false });
});

it("a record that is damaged counts as none, and a full machine is named", async () => {
  using folder = temporaryFolder();
  writeFileSync(join(folder.path, "addresses.json"), '{"block": 64}');
  expect((await takeAddressBlock(folder.path, machine())).hasMoved).toBe(false);
  await expect(takeAddressBlock(folder.path, () => Promise.resolve(undefined))).rejects.toThrow(/all 64 blocks .* in use/);
});
