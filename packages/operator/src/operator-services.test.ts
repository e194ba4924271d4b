import { expect, test } from "vitest";
import { OperatorServices, ServiceKey } from "./operator-services.ts";

test("returns the service that was provided last under a key", () => {
  const services = new OperatorServices();
  const count = new ServiceKey<number>("count");
  services.provide(count, 1);
  services.provide(count, 2);
  expect(services.get(count)).toBe(2);
});

test("distinguishes keys of the same name", () => {
  const services = new OperatorServices();
  services.provide(new ServiceKey<number>("count"), 1);
  expect(() => services.get(new ServiceKey<number>("count"))).toThrow('operator service "count" is not provided');
});
