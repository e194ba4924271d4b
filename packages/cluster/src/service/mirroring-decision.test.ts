import { Endpoints, EndpointSlice, Service } from "@keelson/api-machinery/kinds";
import { describe, expect, test } from "vitest";
import { World } from "../workload/testing/world.ts";
import { decideMirroring } from "./mirroring-decision.ts";

function start(endpoints: object = {}, spec: object = {}): World {
  const world = new World();
  world.create(Service, { metadata: { name: "s" }, spec: { ports: [{ port: 80 }], ...spec } });
  world.create(Endpoints, {
    metadata: { name: "s", labels: { team: "a" } },
    subsets: [{ addresses: [{ ip: "10.0.0.1" }], notReadyAddresses: [{ ip: "10.0.0.2" }], ports: [{ port: 8080 }] }],
    ...endpoints,
  });
  return world;
}
const settle = (world: World): unknown =>
  world.settle(() => ({
    writes: decideMirroring({
      endpoints: world.list(Endpoints)[0],
      service: world.list(Service)[0],
      slices: world.list(EndpointSlice),
    }),
  }));

describe("Endpoints of a Service without a selector", () => {
  test("are mirrored with their addresses, ports, labels and owner", () => {
    const world = start();
    settle(world);
    expect(world.list(EndpointSlice)).toMatchObject([
      {
        metadata: {
          labels: {
            team: "a",
            "kubernetes.io/service-name": "s",
            "endpointslice.kubernetes.io/managed-by": "endpointslicemirroring-controller.k8s.io",
          },
          ownerReferences: [{ kind: "Endpoints", name: "s", controller: true }],
        },
        addressType: "IPv4",
        ports: [{ name: "", port: 8080, protocol: "TCP" }],
        endpoints: [
          { addresses: ["10.0.0.1"], conditions: { ready: true } },
          { addresses: ["10.0.0.2"], conditions: { ready: false } },
        ],
      },
    ]);
  });

  test("have a slice per address family and set of ports, which follows changes", () => {
    const world = start({
      subsets: [
        { addresses: [{ ip: "10.0.0.1" }, { ip: "fd00::1" }], ports: [{ port: 1 }] },
        { addresses: [{ ip: "10.0.0.3" }], ports: [{ port: 2 }] },
      ],
    });
    settle(world);
    expect(world.list(EndpointSlice).map(({ addressType, ports }) => `${addressType} ${ports?.[0]?.port}`)).toEqual([
      "IPv4 1",
      "IPv6 1",
      "IPv4 2",
    ]);
    world.change(Endpoints, "s", { subsets: [{ addresses: [{ ip: "10.0.0.9" }], ports: [{ port: 2 }] }] });
    settle(world);
    expect(world.list(EndpointSlice)).toMatchObject([{ endpoints: [{ addresses: ["10.0.0.9"] }] }]);
  });

  test.each([
    ["the Service has a selector", (world: World) => world.change(Service, "s", { spec: { selector: { app: "a" } } })],
    ["the Service is deleted", (world: World) => world.delete(Service, "s")],
    ["the Endpoints are deleted", (world: World) => world.delete(Endpoints, "s")],
    [
      "the Endpoints opt out",
      (world: World) =>
        world.change(Endpoints, "s", { metadata: { labels: { "endpointslice.kubernetes.io/skip-mirror": "true" } } }),
    ],
  ])("are no longer mirrored once %s", (_when, change) => {
    const world = start();
    settle(world);
    change(world);
    settle(world);
    expect(world.list(EndpointSlice)).toEqual([]);
  });
});
