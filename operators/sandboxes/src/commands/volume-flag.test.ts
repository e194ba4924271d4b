import { expect, it } from "vitest";
import { readVolumes } from "./volume-flag.ts";

it("reads volumes with and without write access", () => {
  expect(readVolumes({ volume: ["data:/data", "models:/m:ro"] })).toEqual([
    { name: "data", mountPath: "/data", readOnly: false },
    { name: "models", mountPath: "/m", readOnly: true },
  ]);
});

it.each(["data", ":/data", "data:data", "data:/data:rw", "data:/data:ro:x"])("rejects %s", (volume) => {
  expect(() => readVolumes({ volume: [volume] })).toThrow("must be of the form NAME:/PATH or NAME:/PATH:ro");
});
