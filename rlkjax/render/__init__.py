"""One episode as bodies that move.

trajectory   a run's policy plays one evaluation episode; poses of all bodies by step
meshes       solids as polygons
camera       where an episode is seen from
film         poses and polygons as plain data for a viewer
still        one frame as shaded polygons in a plane
"""
