import { describe, expect, it } from "vitest";
import type { PodImage } from "../runtimes/pod-images.ts";
import type { ContainerView, PodView } from "../pod/pod-view.ts";
import { containerUser } from "./container-user.ts";

const image = (user?: string): PodImage => ({
  ...{ name: "example.org/program:1", digest: "sha256:0", chainId: "", diffIds: [], entrypoint: [], command: [], env: {} },
  ...(user !== undefined && { user }),
});

/** The user of a container of a node that runs as `own`. */
function userOf(
  securityContext: NonNullable<ContainerView["securityContext"]>,
  { own = 0, of, pod = {} }: { readonly own?: number; readonly of?: PodImage; readonly pod?: object } = {},
): string | undefined {
  const view = { metadata: {}, spec: { containers: [], securityContext: pod } } as unknown as PodView;
  return containerUser(view, { name: "main", securityContext }, of, own);
}

describe("the user of a container", () => {
  it("is the image's unless the Pod asks for another, including for root", () => {
    expect(userOf({}, { of: image("65532:65532") })).toBe("65532:65532");
    expect(userOf({ runAsUser: 7 }, { of: image("65532:65532") })).toBe("7:0");
    expect(userOf({ runAsUser: 0 }, { of: image("65532:65532") })).toBe("0:0");
    expect(userOf({}, { of: image("65532"), pod: { runAsUser: 0, runAsGroup: 9 } })).toBe("0:9");
  });

  it("is the node's without an image, unless the node is root and can change it", () => {
    expect(userOf({})).toBeUndefined();
    expect(userOf({ runAsUser: 0 })).toBeUndefined();
    expect(userOf({ runAsUser: 7 })).toBe("7:0");
    expect(userOf({ runAsUser: 1000 }, { own: 1000 })).toBeUndefined();
    expect(() => userOf({ runAsUser: 7 }, { own: 1000 })).toThrow("cannot switch users");
  });

  it("is not root with runAsNonRoot", () => {
    expect(userOf({ runAsNonRoot: true }, { of: image("65532") })).toBe("65532");
    expect(() => userOf({ runAsNonRoot: true }, { of: image() })).toThrow("would run as root");
    expect(() => userOf({ runAsNonRoot: true, runAsUser: 0 }, { of: image("65532") })).toThrow("would run as root");
    expect(() => userOf({ runAsNonRoot: true }, { of: image("worker") })).toThrow("non-numeric user (worker)");
  });
});
