"""What a config of diffusers says of positions.

In: a config with ``_class_name``. Out: its layers. Start at ``diffusion``; the classes are rows of
``diffusion_classes``.
"""
