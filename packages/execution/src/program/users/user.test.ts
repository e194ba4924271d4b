import { expect, test } from "vitest";
import { resolveUser } from "./user.ts";

test("resolves a name, a uid or uid:gid", () => {
  const passwd = "root:x:0:0:root:/root:/bin/sh\nrobot:x:1000:1001::/home/robot:/bin/sh\n";
  expect(resolveUser("robot", passwd)).toEqual({ uid: 1000, gid: 1001 });
  expect(resolveUser("1000", passwd)).toEqual({ uid: 1000, gid: 1001 });
  expect(resolveUser("7", passwd)).toEqual({ uid: 7, gid: 7 });
  expect(resolveUser("7:8", passwd)).toEqual({ uid: 7, gid: 8 });
  expect(resolveUser("nobody", passwd)).toEqual({ problem: "user nobody not found on this machine" });
  expect(resolveUser("99999999999", passwd)).toHaveProperty("problem");
});
