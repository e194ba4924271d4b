import { expect, it } from "vitest";
import { normalizeImage } from "./image-store.ts";

it.each([
  ["alpine", "docker.io/library/alpine:latest"],
  ["alpine:3", "docker.io/library/alpine:3"],
  ["me/tool", "docker.io/me/tool:latest"],
  ["localhost:5000/tool", "localhost:5000/tool:latest"],
  ["ghcr.io/me/tool@sha256:0", "ghcr.io/me/tool@sha256:0"],
  ["index.docker.io/alpine", "docker.io/library/alpine:latest"],
  ["No Name", "No Name"],
  ["host", "host"],
])("normalizes %s to %s (C13)", (short, full) => {
  expect(normalizeImage(short)).toBe(full);
});
