/**
 * Field numbers of messages that `field-table.generated.ts` lacks, in its format, from the `generated.proto` files of k8s.io/api,
 * k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator. Additional types: `B` JSONSchemaPropsOrBool, `A` JSONSchemaPropsOrArray, `P`
 * JSONSchemaPropsOrStringArray.
 */
export const additionalFields = `admissionregistration.v1beta1.ApplyConfiguration	1expression:s
admissionregistration.v1beta1.JSONPatch	1expression:s
admissionregistration.v1beta1.MutatingAdmissionPolicy	1metadata:meta.v1.ObjectMeta 2spec:admissionregistration.v1beta1.MutatingAdmissionPolicySpec
admissionregistration.v1beta1.MutatingAdmissionPolicyBinding	1metadata:meta.v1.ObjectMeta 2spec:admissionregistration.v1beta1.MutatingAdmissionPolicyBindingSpec
admissionregistration.v1beta1.MutatingAdmissionPolicyBindingSpec	1policyName:s 2paramRef:admissionregistration.v1.ParamRef 3matchResources:admissionregistration.v1.MatchResources
admissionregistration.v1beta1.MutatingAdmissionPolicySpec	1paramKind:admissionregistration.v1.ParamKind 2matchConstraints:admissionregistration.v1.MatchResources 3variables:*admissionregistration.v1.Variable 4mutations:*admissionregistration.v1beta1.Mutation 5failurePolicy:s 6matchConditions:*admissionregistration.v1.MatchCondition 7reinvocationPolicy:s
admissionregistration.v1beta1.Mutation	2patchType:s 3applyConfiguration:admissionregistration.v1beta1.ApplyConfiguration 4jsonPatch:admissionregistration.v1beta1.JSONPatch
apiextensions.v1.CustomResourceColumnDefinition	1name:s 2type:s 3format:s 4description:s 5priority:i 6jsonPath:s
apiextensions.v1.CustomResourceConversion	1strategy:s 2webhook:apiextensions.v1.WebhookConversion
apiextensions.v1.CustomResourceDefinition	1metadata:meta.v1.ObjectMeta 2spec:apiextensions.v1.CustomResourceDefinitionSpec 3status:apiextensions.v1.CustomResourceDefinitionStatus
apiextensions.v1.CustomResourceDefinitionCondition	1type:s 2status:s 3lastTransitionTime:t 4reason:s 5message:s 6observedGeneration:i
apiextensions.v1.CustomResourceDefinitionNames	1plural:s 2singular:s 3shortNames:*s 4kind:s 5listKind:s 6categories:*s
apiextensions.v1.CustomResourceDefinitionSpec	1group:s 3names:apiextensions.v1.CustomResourceDefinitionNames 4scope:s 7versions:*apiextensions.v1.CustomResourceDefinitionVersion 9conversion:apiextensions.v1.CustomResourceConversion 10preserveUnknownFields:b
apiextensions.v1.CustomResourceDefinitionStatus	1conditions:*apiextensions.v1.CustomResourceDefinitionCondition 2acceptedNames:apiextensions.v1.CustomResourceDefinitionNames 3storedVersions:*s 4observedGeneration:i
apiextensions.v1.CustomResourceDefinitionVersion	1name:s 2!served:b 3!storage:b 7deprecated:b 8!deprecationWarning:s 4schema:apiextensions.v1.CustomResourceValidation 5subresources:apiextensions.v1.CustomResourceSubresources 6additionalPrinterColumns:*apiextensions.v1.CustomResourceColumnDefinition 9selectableFields:*apiextensions.v1.SelectableField
apiextensions.v1.CustomResourceSubresourceScale	1specReplicasPath:s 2statusReplicasPath:s 3labelSelectorPath:s
apiextensions.v1.CustomResourceSubresourceStatus	
apiextensions.v1.CustomResourceSubresources	1status:apiextensions.v1.CustomResourceSubresourceStatus 2scale:apiextensions.v1.CustomResourceSubresourceScale
apiextensions.v1.CustomResourceValidation	1openAPIV3Schema:apiextensions.v1.JSONSchemaProps
apiextensions.v1.ExternalDocumentation	1description:s 2url:s
apiextensions.v1.JSONSchemaProps	1id:s 2$schema:s 3$ref:s 4description:s 5type:s 6format:s 7title:s 8default:r 9!maximum:d 10exclusiveMaximum:b 11!minimum:d 12exclusiveMinimum:b 13!maxLength:i 14!minLength:i 15pattern:s 16!maxItems:i 17!minItems:i 18uniqueItems:b 19!multipleOf:d 20enum:*r 21!maxProperties:i 22!minProperties:i 23required:*s 24items:A 25allOf:*apiextensions.v1.JSONSchemaProps 26oneOf:*apiextensions.v1.JSONSchemaProps 27anyOf:*apiextensions.v1.JSONSchemaProps 28not:apiextensions.v1.JSONSchemaProps 29properties:%apiextensions.v1.JSONSchemaProps 30additionalProperties:B 31patternProperties:%apiextensions.v1.JSONSchemaProps 32dependencies:%P 33additionalItems:B 34definitions:%apiextensions.v1.JSONSchemaProps 35externalDocs:apiextensions.v1.ExternalDocumentation 36example:r 37nullable:b 38!x-kubernetes-preserve-unknown-fields:b 39x-kubernetes-embedded-resource:b 40x-kubernetes-int-or-string:b 41x-kubernetes-list-map-keys:*s 42x-kubernetes-list-type:s 43x-kubernetes-map-type:s 44x-kubernetes-validations:*apiextensions.v1.ValidationRule
apiextensions.v1.SelectableField	1jsonPath:s
apiextensions.v1.ServiceReference	1namespace:s 2name:s 3path:s 4!port:i
apiextensions.v1.ValidationRule	1rule:s 2message:s 3messageExpression:s 4reason:s 5fieldPath:s 6!optionalOldSelf:b
apiextensions.v1.WebhookClientConfig	3url:s 1service:apiextensions.v1.ServiceReference 2caBundle:y
apiextensions.v1.WebhookConversion	2clientConfig:apiextensions.v1.WebhookClientConfig 3conversionReviewVersions:*s
apiregistration.v1.APIService	1metadata:meta.v1.ObjectMeta 2spec:apiregistration.v1.APIServiceSpec 3status:apiregistration.v1.APIServiceStatus
apiregistration.v1.APIServiceCondition	1type:s 2status:s 3lastTransitionTime:t 4reason:s 5message:s
apiregistration.v1.APIServiceSpec	1service:apiregistration.v1.ServiceReference 2group:s 3version:s 4insecureSkipTLSVerify:b 5caBundle:y 7!groupPriorityMinimum:i 8!versionPriority:i
apiregistration.v1.APIServiceStatus	1conditions:*apiregistration.v1.APIServiceCondition
apiregistration.v1.ServiceReference	1namespace:s 2name:s 3!port:i
autoscaling.v2.ContainerResourceMetricSource	1name:s 2target:autoscaling.v2.MetricTarget 3container:s
autoscaling.v2.ContainerResourceMetricStatus	1name:s 2current:autoscaling.v2.MetricValueStatus 3container:s
autoscaling.v2.CrossVersionObjectReference	1kind:s 2name:s 3apiVersion:s
autoscaling.v2.ExternalMetricSource	1metric:autoscaling.v2.MetricIdentifier 2target:autoscaling.v2.MetricTarget
autoscaling.v2.ExternalMetricStatus	1metric:autoscaling.v2.MetricIdentifier 2current:autoscaling.v2.MetricValueStatus
autoscaling.v2.HPAScalingPolicy	1type:s 2value:i 3periodSeconds:i
autoscaling.v2.HPAScalingRules	3!stabilizationWindowSeconds:i 1selectPolicy:s 2policies:*autoscaling.v2.HPAScalingPolicy 4tolerance:q
autoscaling.v2.HorizontalPodAutoscaler	1metadata:meta.v1.ObjectMeta 2spec:autoscaling.v2.HorizontalPodAutoscalerSpec 3status:autoscaling.v2.HorizontalPodAutoscalerStatus
autoscaling.v2.HorizontalPodAutoscalerBehavior	1scaleUp:autoscaling.v2.HPAScalingRules 2scaleDown:autoscaling.v2.HPAScalingRules
autoscaling.v2.HorizontalPodAutoscalerCondition	1type:s 2status:s 3lastTransitionTime:t 4reason:s 5message:s 6observedGeneration:i
autoscaling.v2.HorizontalPodAutoscalerSpec	1scaleTargetRef:autoscaling.v2.CrossVersionObjectReference 2!minReplicas:i 3maxReplicas:i 4metrics:*autoscaling.v2.MetricSpec 5behavior:autoscaling.v2.HorizontalPodAutoscalerBehavior
autoscaling.v2.HorizontalPodAutoscalerStatus	1observedGeneration:i 2lastScaleTime:t 3currentReplicas:i 4desiredReplicas:i 5currentMetrics:*autoscaling.v2.MetricStatus 6conditions:*autoscaling.v2.HorizontalPodAutoscalerCondition
autoscaling.v2.MetricIdentifier	1name:s 2selector:meta.v1.LabelSelector
autoscaling.v2.MetricSpec	1type:s 2object:autoscaling.v2.ObjectMetricSource 3pods:autoscaling.v2.PodsMetricSource 4resource:autoscaling.v2.ResourceMetricSource 7containerResource:autoscaling.v2.ContainerResourceMetricSource 5external:autoscaling.v2.ExternalMetricSource
autoscaling.v2.MetricStatus	1type:s 2object:autoscaling.v2.ObjectMetricStatus 3pods:autoscaling.v2.PodsMetricStatus 4resource:autoscaling.v2.ResourceMetricStatus 7containerResource:autoscaling.v2.ContainerResourceMetricStatus 5external:autoscaling.v2.ExternalMetricStatus
autoscaling.v2.MetricTarget	1type:s 2value:q 3averageValue:q 4!averageUtilization:i
autoscaling.v2.MetricValueStatus	1value:q 2averageValue:q 3!averageUtilization:i
autoscaling.v2.ObjectMetricSource	1describedObject:autoscaling.v2.CrossVersionObjectReference 2target:autoscaling.v2.MetricTarget 3metric:autoscaling.v2.MetricIdentifier
autoscaling.v2.ObjectMetricStatus	1metric:autoscaling.v2.MetricIdentifier 2current:autoscaling.v2.MetricValueStatus 3describedObject:autoscaling.v2.CrossVersionObjectReference
autoscaling.v2.PodsMetricSource	1metric:autoscaling.v2.MetricIdentifier 2target:autoscaling.v2.MetricTarget
autoscaling.v2.PodsMetricStatus	1metric:autoscaling.v2.MetricIdentifier 2current:autoscaling.v2.MetricValueStatus
autoscaling.v2.ResourceMetricSource	1name:s 2target:autoscaling.v2.MetricTarget
autoscaling.v2.ResourceMetricStatus	1name:s 2current:autoscaling.v2.MetricValueStatus
certificates.v1.CertificateSigningRequest	1metadata:meta.v1.ObjectMeta 2spec:certificates.v1.CertificateSigningRequestSpec 3status:certificates.v1.CertificateSigningRequestStatus
certificates.v1.CertificateSigningRequestCondition	1type:s 6status:s 2reason:s 3message:s 4lastUpdateTime:t 5lastTransitionTime:t
certificates.v1.CertificateSigningRequestSpec	1request:y 7signerName:s 8!expirationSeconds:i 5usages:*s 2username:s 3uid:s 4groups:*s 6extra:%l
certificates.v1.CertificateSigningRequestStatus	1conditions:*certificates.v1.CertificateSigningRequestCondition 2certificate:y
flowcontrol.v1.ExemptPriorityLevelConfiguration	1!nominalConcurrencyShares:i 2!lendablePercent:i
flowcontrol.v1.FlowDistinguisherMethod	1type:s
flowcontrol.v1.FlowSchema	1metadata:meta.v1.ObjectMeta 2spec:flowcontrol.v1.FlowSchemaSpec 3status:flowcontrol.v1.FlowSchemaStatus
flowcontrol.v1.FlowSchemaCondition	1type:s 2status:s 3lastTransitionTime:t 4reason:s 5message:s
flowcontrol.v1.FlowSchemaSpec	1priorityLevelConfiguration:flowcontrol.v1.PriorityLevelConfigurationReference 2!matchingPrecedence:i 3distinguisherMethod:flowcontrol.v1.FlowDistinguisherMethod 4rules:*flowcontrol.v1.PolicyRulesWithSubjects
flowcontrol.v1.FlowSchemaStatus	1conditions:*flowcontrol.v1.FlowSchemaCondition
flowcontrol.v1.GroupSubject	1name:s
flowcontrol.v1.LimitResponse	1type:s 2queuing:flowcontrol.v1.QueuingConfiguration
flowcontrol.v1.LimitedPriorityLevelConfiguration	1!nominalConcurrencyShares:i 2limitResponse:flowcontrol.v1.LimitResponse 3!lendablePercent:i 4!borrowingLimitPercent:i
flowcontrol.v1.NonResourcePolicyRule	1verbs:*s 6nonResourceURLs:*s
flowcontrol.v1.PolicyRulesWithSubjects	1subjects:*flowcontrol.v1.Subject 2resourceRules:*flowcontrol.v1.ResourcePolicyRule 3nonResourceRules:*flowcontrol.v1.NonResourcePolicyRule
flowcontrol.v1.PriorityLevelConfiguration	1metadata:meta.v1.ObjectMeta 2spec:flowcontrol.v1.PriorityLevelConfigurationSpec 3status:flowcontrol.v1.PriorityLevelConfigurationStatus
flowcontrol.v1.PriorityLevelConfigurationCondition	1type:s 2status:s 3lastTransitionTime:t 4reason:s 5message:s
flowcontrol.v1.PriorityLevelConfigurationReference	1name:s
flowcontrol.v1.PriorityLevelConfigurationSpec	1type:s 2limited:flowcontrol.v1.LimitedPriorityLevelConfiguration 3exempt:flowcontrol.v1.ExemptPriorityLevelConfiguration
flowcontrol.v1.PriorityLevelConfigurationStatus	1conditions:*flowcontrol.v1.PriorityLevelConfigurationCondition
flowcontrol.v1.QueuingConfiguration	1queues:i 2handSize:i 3queueLengthLimit:i
flowcontrol.v1.ResourcePolicyRule	1verbs:*s 2apiGroups:*s 3resources:*s 4clusterScope:b 5namespaces:*s
flowcontrol.v1.ServiceAccountSubject	1namespace:s 2name:s
flowcontrol.v1.Subject	1kind:s 2user:flowcontrol.v1.UserSubject 3group:flowcontrol.v1.GroupSubject 4serviceAccount:flowcontrol.v1.ServiceAccountSubject
flowcontrol.v1.UserSubject	1name:s
networking.v1.IPAddress	1metadata:meta.v1.ObjectMeta 2spec:networking.v1.IPAddressSpec
networking.v1.IPAddressSpec	1parentRef:networking.v1.ParentReference
networking.v1.ParentReference	1group:s 2resource:s 3namespace:s 4name:s
networking.v1.ServiceCIDR	1metadata:meta.v1.ObjectMeta 2spec:networking.v1.ServiceCIDRSpec 3status:networking.v1.ServiceCIDRStatus
networking.v1.ServiceCIDRSpec	1cidrs:*s
networking.v1.ServiceCIDRStatus	1conditions:*meta.v1.Condition
node.v1.Overhead	1podFixed:%q
node.v1.RuntimeClass	1metadata:meta.v1.ObjectMeta 2handler:s 3overhead:node.v1.Overhead 4scheduling:node.v1.Scheduling
node.v1.Scheduling	1nodeSelector:%s 2tolerations:*core.v1.Toleration
resource.v1.AllocatedDeviceStatus	1driver:s 2pool:s 3device:s 7!shareID:s 4conditions:*meta.v1.Condition 5data:r 6networkData:resource.v1.NetworkDeviceData
resource.v1.AllocationResult	1devices:resource.v1.DeviceAllocationResult 3nodeSelector:core.v1.NodeSelector 5allocationTimestamp:t
resource.v1.CELDeviceSelector	1expression:s
resource.v1.CapacityRequestPolicy	1default:q 3validValues:*q 4validRange:resource.v1.CapacityRequestPolicyRange
resource.v1.CapacityRequestPolicyRange	1min:q 2max:q 3step:q
resource.v1.CapacityRequirements	1requests:%q
resource.v1.Counter	1value:q
resource.v1.CounterSet	1name:s 2counters:%resource.v1.Counter
resource.v1.Device	1name:s 2attributes:%resource.v1.DeviceAttribute 3capacity:%resource.v1.DeviceCapacity 4consumesCounters:*resource.v1.DeviceCounterConsumption 5!nodeName:s 6nodeSelector:core.v1.NodeSelector 7!allNodes:b 8taints:*resource.v1.DeviceTaint 9!bindsToNode:b 10bindingConditions:*s 11bindingFailureConditions:*s 12!allowMultipleAllocations:b
resource.v1.DeviceAllocationConfiguration	1source:s 2requests:*s 3<deviceConfiguration:resource.v1.DeviceConfiguration
resource.v1.DeviceAllocationResult	1results:*resource.v1.DeviceRequestAllocationResult 2config:*resource.v1.DeviceAllocationConfiguration
resource.v1.DeviceAttribute	2!int:i 3!bool:b 4!string:s 5!version:s
resource.v1.DeviceCapacity	1value:q 2requestPolicy:resource.v1.CapacityRequestPolicy
resource.v1.DeviceClaim	1requests:*resource.v1.DeviceRequest 2constraints:*resource.v1.DeviceConstraint 3config:*resource.v1.DeviceClaimConfiguration
resource.v1.DeviceClaimConfiguration	1requests:*s 2<deviceConfiguration:resource.v1.DeviceConfiguration
resource.v1.DeviceClass	1metadata:meta.v1.ObjectMeta 2spec:resource.v1.DeviceClassSpec
resource.v1.DeviceClassConfiguration	1<deviceConfiguration:resource.v1.DeviceConfiguration
resource.v1.DeviceClassSpec	1selectors:*resource.v1.DeviceSelector 2config:*resource.v1.DeviceClassConfiguration 4!extendedResourceName:s
resource.v1.DeviceConfiguration	1opaque:resource.v1.OpaqueDeviceConfiguration
resource.v1.DeviceConstraint	1requests:*s 2!matchAttribute:s 3!distinctAttribute:s
resource.v1.DeviceCounterConsumption	1counterSet:s 2counters:%resource.v1.Counter
resource.v1.DeviceRequest	1name:s 2exactly:resource.v1.ExactDeviceRequest 3firstAvailable:*resource.v1.DeviceSubRequest
resource.v1.DeviceRequestAllocationResult	1request:s 2driver:s 3pool:s 4device:s 5!adminAccess:b 6tolerations:*resource.v1.DeviceToleration 7bindingConditions:*s 8bindingFailureConditions:*s 9!shareID:s 10consumedCapacity:%q
resource.v1.DeviceSelector	1cel:resource.v1.CELDeviceSelector
resource.v1.DeviceSubRequest	1name:s 2deviceClassName:s 3selectors:*resource.v1.DeviceSelector 4allocationMode:s 5count:i 6tolerations:*resource.v1.DeviceToleration 7capacity:resource.v1.CapacityRequirements
resource.v1.DeviceTaint	1key:s 2value:s 3effect:s 4timeAdded:t
resource.v1.DeviceToleration	1key:s 2operator:s 3value:s 4effect:s 5!tolerationSeconds:i
resource.v1.ExactDeviceRequest	1deviceClassName:s 2selectors:*resource.v1.DeviceSelector 3allocationMode:s 4count:i 5!adminAccess:b 6tolerations:*resource.v1.DeviceToleration 7capacity:resource.v1.CapacityRequirements
resource.v1.NetworkDeviceData	1interfaceName:s 2ips:*s 3hardwareAddress:s
resource.v1.OpaqueDeviceConfiguration	1driver:s 2parameters:r
resource.v1.ResourceClaim	1metadata:meta.v1.ObjectMeta 2spec:resource.v1.ResourceClaimSpec 3status:resource.v1.ResourceClaimStatus
resource.v1.ResourceClaimConsumerReference	1apiGroup:s 3resource:s 4name:s 5uid:s
resource.v1.ResourceClaimSpec	1devices:resource.v1.DeviceClaim
resource.v1.ResourceClaimStatus	1allocation:resource.v1.AllocationResult 2reservedFor:*resource.v1.ResourceClaimConsumerReference 4devices:*resource.v1.AllocatedDeviceStatus
resource.v1.ResourceClaimTemplate	1metadata:meta.v1.ObjectMeta 2spec:resource.v1.ResourceClaimTemplateSpec
resource.v1.ResourceClaimTemplateSpec	1metadata:meta.v1.ObjectMeta 2spec:resource.v1.ResourceClaimSpec
resource.v1.ResourcePool	1name:s 2generation:i 3resourceSliceCount:i
resource.v1.ResourceSlice	1metadata:meta.v1.ObjectMeta 2spec:resource.v1.ResourceSliceSpec
resource.v1.ResourceSliceSpec	1driver:s 2pool:resource.v1.ResourcePool 3!nodeName:s 4nodeSelector:core.v1.NodeSelector 5!allNodes:b 6devices:*resource.v1.Device 7!perDeviceNodeSelection:b 8sharedCounters:*resource.v1.CounterSet
storage.v1.CSIDriver	1metadata:meta.v1.ObjectMeta 2spec:storage.v1.CSIDriverSpec
storage.v1.CSIDriverSpec	1!attachRequired:b 2!podInfoOnMount:b 3volumeLifecycleModes:*s 4!storageCapacity:b 5fsGroupPolicy:s 6tokenRequests:*storage.v1.TokenRequest 7!requiresRepublish:b 8!seLinuxMount:b 9!nodeAllocatableUpdatePeriodSeconds:i 10serviceAccountTokenInSecrets:b 11preventPodSchedulingIfMissing:b
storage.v1.CSIStorageCapacity	1metadata:meta.v1.ObjectMeta 2nodeTopology:meta.v1.LabelSelector 3storageClassName:s 4capacity:q 5maximumVolumeSize:q
storage.v1.TokenRequest	1audience:s 2!expirationSeconds:i
storage.v1.VolumeAttributesClass	1metadata:meta.v1.ObjectMeta 2driverName:s 3parameters:%s
storagemigration.v1beta1.StorageVersionMigration	1metadata:meta.v1.ObjectMeta 2spec:storagemigration.v1beta1.StorageVersionMigrationSpec 3status:storagemigration.v1beta1.StorageVersionMigrationStatus
storagemigration.v1beta1.StorageVersionMigrationSpec	1resource:storagemigration.v1beta1.GroupResource
storagemigration.v1beta1.GroupResource	1!group:s 2!resource:s
storagemigration.v1beta1.StorageVersionMigrationStatus	1conditions:*meta.v1.Condition 2resourceVersion:s`;
