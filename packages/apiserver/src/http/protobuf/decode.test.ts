import { isStatusError } from "@keelson/api-machinery";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { startTestEnvironment } from "../../testing/test-environment.ts";
import { decodeProtobuf } from "./decode.ts";
import { fieldsOf } from "./fields.ts";

/** Writes protobuf by hand: numbers as varints, text and nested fields with their length. */
type Value = number | bigint | string | Buffer | readonly (readonly [number, Value])[];

function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let left = BigInt.asUintN(64, value);
  do {
    bytes.push(Number(left & 0x7fn) | (left > 0x7fn ? 0x80 : 0));
    left >>= 7n;
  } while (left > 0n);
  return Buffer.from(bytes);
}

function message(fields: readonly (readonly [number, Value])[]): Buffer {
  return Buffer.concat(
    fields.map(([number, value]) => {
      if (typeof value === "number" || typeof value === "bigint")
        return Buffer.concat([varint(BigInt(number * 8)), varint(BigInt(value))]);
      const bytes = Buffer.isBuffer(value) ? value : typeof value === "string" ? Buffer.from(value) : message(value);
      return Buffer.concat([varint(BigInt(number * 8 + 2)), varint(BigInt(bytes.length)), bytes]);
    }),
  );
}

function body(apiVersion: string, kind: string, fields: readonly (readonly [number, Value])[]): Buffer {
  const content = message([
    [
      1,
      [
        [1, apiVersion],
        [2, kind],
      ],
    ],
    [2, message(fields)],
    [3, ""],
    [4, ""],
  ]);
  return Buffer.concat([Buffer.from("k8s\0"), content]);
}

/** Metadata as Go writes it: what is not set is written as well. */
const metadata: Value = [
  [1, "web"],
  [2, ""],
  [3, "default"],
  [5, ""],
  [7, 0],
  [8, []],
  [
    11,
    [
      [1, "app"],
      [2, "x"],
    ],
  ],
  [
    11,
    [
      [1, "__proto__"],
      [2, "y"],
    ],
  ],
];

describe("a protobuf body", () => {
  test("becomes the JSON that the same client would have sent", () => {
    const container: Value = [
      [1, "main"],
      [2, "image:1"],
      [5, ""],
      [
        8,
        [
          [
            1,
            [
              [1, "cpu"],
              [2, [[1, "500m"]]],
            ],
          ],
        ],
      ],
      [
        10,
        [
          [
            1,
            [
              [
                2,
                [
                  [1, "/healthz"],
                  [
                    2,
                    [
                      [1, 1],
                      [2, 0],
                      [3, "http"],
                    ],
                  ],
                  [4, ""],
                ],
              ],
            ],
          ],
          [2, 0],
          [4, 7],
        ],
      ],
      [16, 0],
      [
        15,
        [
          [2, 0],
          [4, 0n],
        ],
      ],
    ];
    const object = decodeProtobuf(
      body("apps/v1", "Deployment", [
        [1, metadata],
        [
          2,
          [
            [1, 0],
            [
              3,
              [
                [1, []],
                [
                  2,
                  [
                    [2, container],
                    [15, [[1, "n"]]],
                  ],
                ],
              ],
            ],
            [
              4,
              [
                [1, ""],
                [
                  2,
                  [
                    [
                      1,
                      [
                        [1, 0],
                        [2, 2],
                        [3, ""],
                      ],
                    ],
                  ],
                ],
              ],
            ],
            [5, 0],
            [99, "later"],
          ],
        ],
        [3, [[1, 0n]]],
      ]),
    );
    expect(object).toEqual({
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { name: "web", namespace: "default", labels: JSON.parse('{"app":"x","__proto__":"y"}') },
      spec: {
        replicas: 0,
        strategy: { rollingUpdate: { maxUnavailable: 2 } },
        template: {
          metadata: {},
          spec: {
            containers: [
              {
                name: "main",
                image: "image:1",
                resources: { limits: { cpu: "500m" } },
                livenessProbe: { httpGet: { path: "/healthz", port: "http" }, periodSeconds: 7 },
                securityContext: { privileged: false, runAsUser: 0 },
              },
            ],
            imagePullSecrets: [{ name: "n" }],
          },
        },
      },
      status: {},
    });
  });

  test("may hold bytes, times, lists in messages and embedded JSON", () => {
    expect(
      decodeProtobuf(
        body("v1", "Secret", [
          [1, [[1, "s"]]],
          [
            2,
            [
              [1, "k"],
              [2, Buffer.from([0, 255])],
            ],
          ],
          [5, 0],
        ]),
      ),
    ).toEqual({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "s" },
      data: { k: "AP8=" },
      immutable: false,
    });
    expect(
      decodeProtobuf(
        body("coordination.k8s.io/v1", "Lease", [
          [
            2,
            [
              [1, "me"],
              [2, 15],
              [
                4,
                [
                  [1, 1_700_000_000],
                  [2, 5_000],
                ],
              ],
            ],
          ],
        ]),
      ),
    ).toMatchObject({
      spec: { holderIdentity: "me", leaseDurationSeconds: 15, renewTime: "2023-11-14T22:13:20.000005Z" },
    });
    const review = [
      [
        2,
        [
          [3, "jane"],
          [
            5,
            [
              [1, "scope"],
              [
                2,
                [
                  [1, "a"],
                  [1, "b"],
                ],
              ],
            ],
          ],
        ],
      ],
    ] as const;
    expect(decodeProtobuf(body("authorization.k8s.io/v1", "SubjectAccessReview", review))).toMatchObject({
      spec: { user: "jane", extra: { scope: ["a", "b"] } },
    });
    const revision = [
      [2, [[1, '{"spec":{"a":[1]}}']]],
      [3, -1n],
    ] as const;
    expect(decodeProtobuf(body("apps/v1", "ControllerRevision", revision))).toMatchObject({
      data: { spec: { a: [1] } },
      revision: -1,
    });
    expect(
      decodeProtobuf(
        body("apps/v1", "DeleteOptions", [
          [1, 0],
          [4, "Background"],
        ]),
      ),
    ).toMatchObject({ gracePeriodSeconds: 0, propagationPolicy: "Background" });
  });

  test("of a kind that is not known is refused, naming it", () => {
    expect(() => decodeProtobuf(body("example.com/v1", "Widget", []))).toThrow(
      "Widget in version example.com/v1 is not supported as protobuf",
    );
    expect(() => decodeProtobuf(body("v1", "__proto__", []))).toThrow("not supported");
  });

  test("that is malformed is a bad request, whatever is wrong with it", () => {
    const whole = body("v1", "Pod", [
      [1, metadata],
      [2, [[2, [[1, "c"]]]]],
    ]);
    fc.assert(
      fc.property(fc.nat(whole.length - 1), fc.nat(255), fc.boolean(), (at, byte, isCut) => {
        const broken = isCut ? whole.subarray(0, at) : Buffer.from(whole.map((value, index) => (index === at ? byte : value)));
        try {
          decodeProtobuf(broken);
        } catch (error) {
          if (!isStatusError(error)) throw error;
        }
      }),
      { numRuns: 2_000 },
    );
    expect(() => decodeProtobuf(Buffer.from("k8s\0\x0a\xff"))).toThrow(/not valid protobuf/);
    expect(() => decodeProtobuf(Buffer.from("{}"))).toThrow(/does not start/);
  });

  test("decodes a CustomResourceDefinition with its schema", () => {
    const schema: Value = [
      [5, "object"],
      [38, 0],
      [
        29,
        [
          [1, "spec"],
          [
            2,
            [
              [5, "object"],
              [8, [[1, '{"n":1}']]],
              [14, 0],
              [20, [[1, '"a"']]],
              [20, [[1, "null"]]],
              [24, [[1, [[5, "string"]]]]],
              [30, [[1, 1]]],
              [44, [[1, "self.n > 0"]]],
            ],
          ],
        ],
      ],
      [
        29,
        [
          [1, "tags"],
          [2, [[30, [[2, [[5, "integer"]]]]]]],
        ],
      ],
    ];
    const version: Value = [
      [1, "v1"],
      [2, 1],
      [3, 0],
      [4, [[1, schema]]],
    ];
    const crd = decodeProtobuf(
      body("apiextensions.k8s.io/v1", "CustomResourceDefinition", [
        [1, [[1, "widgets.example.com"]]],
        [
          2,
          [
            [1, "example.com"],
            [4, "Namespaced"],
            [7, version],
          ],
        ],
      ]),
    );
    expect(crd).toMatchObject({
      apiVersion: "apiextensions.k8s.io/v1",
      kind: "CustomResourceDefinition",
      spec: {
        group: "example.com",
        scope: "Namespaced",
        versions: [
          {
            name: "v1",
            served: true,
            storage: false,
            schema: {
              openAPIV3Schema: {
                type: "object",
                "x-kubernetes-preserve-unknown-fields": false,
                properties: {
                  spec: {
                    type: "object",
                    default: { n: 1 },
                    minLength: 0,
                    enum: ["a", null],
                    items: { type: "string" },
                    additionalProperties: true,
                    "x-kubernetes-validations": [{ rule: "self.n > 0" }],
                  },
                  tags: { additionalProperties: { type: "integer" } },
                },
              },
            },
          },
        ],
      },
    });
  });

  test("is supported for every built-in kind that is served", async () => {
    await using environment = await startTestEnvironment();
    const builtIn = environment.server.resources.list().filter(({ origin }) => origin === "builtin");
    const messages = builtIn.map(
      ({ group, version, kind }) => `${group === "" ? "core" : group.split(".")[0]}.${version}.${kind}`,
    );
    expect(messages.filter((name) => fieldsOf(name) === undefined)).toEqual([]);
  });
});
