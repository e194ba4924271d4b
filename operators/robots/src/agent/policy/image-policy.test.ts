import { expect, test } from "vitest";
import { isAllowedImage, readAllowedImages } from "./image-policy.ts";

const digest = `sha256:${"ab".repeat(32)}`;

test.each([
  ["registry.example.com/fleet/", "registry.example.com/fleet/nav:1", true],
  ["registry.example.com/fleet/", "registry.example.com/fleet/a/nav:1", true],
  ["registry.example.com/fleet/", "registry.example.com/fleet-evil/nav:1", false],
  ["registry.example.com/fleet", "registry.example.com/fleet:1", true],
  ["registry.example.com/fleet", `registry.example.com/fleet@${digest}`, true],
  ["registry.example.com/fleet", "registry.example.com/fleet-evil/x", false],
  ["registry.example.com/fleet", "registry.example.com/fleet-evil:1", false],
  ["registry.example.com/fleet", "registry.example.com/fleet/nav:1", false],
  ["registry.example.com/", "registry.example.com/nav", true],
  ["registry.example.com/", "registry.example.com.evil.org/nav", false],
  ["registry.example.com:5000/", "registry.example.com:5000/nav", true],
  ["registry.example.com:5000/nav", "registry.example.com:5000/nav:2", true],
  ["docker.io/library/app:1", "app:1", true],
  ["docker.io/library/app:1", "app:10", false],
  ["docker.io/library/app:1", `app:1@${digest}`, false],
  [`app@${digest}`, `app:1@${digest}`, true],
  [`app@${digest}`, "app:1", false],
  ["app", "docker.io/library/app:1", true],
  ["app", "app", true],
  ["app", "apple:1", false],
  ["app:1", "docker.io/library/app:1", true],
  ["acme/", "docker.io/acme/nav", true],
  ["acme/", "acme2/nav", false],
  ["docker.io/", "acme/nav", true],
  ["docker.io/", "nav", true],
  ["docker.io/library/", "nav", true],
  ["docker.io/library/", "acme/nav", false],
  ["index.docker.io/acme/", "acme/nav", true],
  ["localhost/", "localhost/nav", true],
])("with the entry %s, the image %s is allowed: %j", (entry, image, isAllowed) => {
  expect(isAllowedImage(readAllowedImages([entry]) ?? [], image)).toBe(isAllowed);
});

test.each(["registry.example.com/fleet-", "/", "Nav", "nav:", `nav@${digest.slice(0, -1)}`, "a//", "registry.example.com/*"])(
  "the entry %s is rejected",
  (entry) => {
    expect(() => readAllowedImages(["nav", entry])).toThrow(
      `docker.images: ${JSON.stringify(entry)} must be the name of an image`,
    );
  },
);

test("a policy without the field does not limit images, and one with an empty list allows none", () => {
  expect(readAllowedImages(undefined)).toBeUndefined();
  expect(isAllowedImage([], "nav")).toBe(false);
});
