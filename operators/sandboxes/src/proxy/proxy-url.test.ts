import { expect, it } from "vitest";
import { portOfHost, portUrl, takeSignature } from "./proxy-url.ts";

const id = "0123456789abcdef0123456789abcdef";

it("names the port and the sandbox in the host of a URL", () => {
  const url = portUrl(new URL("https://boxes.example:8443"), { sandboxId: id, port: 80 }, "k.1.s");
  expect(url).toBe(`https://80-${id}.boxes.example:8443/?keelson-signature=k.1.s`);
  expect(portOfHost(new URL(url).host, "boxes.example")).toEqual({ sandboxId: id, port: 80 });
  expect(portOfHost(`80-${id.toUpperCase()}.Boxes.Example.`, "boxes.example")).toEqual({ sandboxId: id, port: 80 });
});

it.each([
  undefined,
  "boxes.example",
  `80-${id}`,
  `80-${id}.evil.example`,
  `80-${id}.boxes.example.evil.example`,
  `80-${id}evilboxes.example`,
  `0-${id}.boxes.example`,
  `65536-${id}.boxes.example`,
  `080-${id}.boxes.example`,
  `x.80-${id}.boxes.example`,
  `80-../x.boxes.example`,
])("finds no port in the host %s", (host) => {
  expect(portOfHost(host, "boxes.example")).toBeUndefined();
});

it("takes the signature out of a path and leaves the rest as it is", () => {
  expect(takeSignature("/a?b=%2f&keelson-signature=s&c")).toEqual({ target: "/a?b=%2f&c", signature: "s" });
  expect(takeSignature("/?keelson-signature=s")).toEqual({ target: "/", signature: "s" });
  expect(takeSignature("/?keelson-signature=s&keelson-signature=t")).toEqual({ target: "/", signature: "s" });
  expect(takeSignature("/a?b")).toEqual({ target: "/a?b", signature: undefined });
});
